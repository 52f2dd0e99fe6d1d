from .backend import Backend as Backend
from .opening import open_backend as open_backend
