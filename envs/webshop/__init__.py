"""A shop to search, browse and buy in: catalogue, search, pages, reward, and the environment that combines them."""
