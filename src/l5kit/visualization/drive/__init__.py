"""Interactive drive: a page on which a person drives the AV in IDM traffic."""
