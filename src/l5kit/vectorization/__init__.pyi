from .route_columns import RouteColumns as RouteColumns
from .vectorizer import Vectorizer as Vectorizer
from .vectorizer_builder import build_vectorizer as build_vectorizer
