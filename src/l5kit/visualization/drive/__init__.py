"""Drive oneself: a page in which a person drives the AV among traffic that follows the IDM."""
