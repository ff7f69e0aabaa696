"""The types of what views return, as JSON has them. The HTTP API makes its schemas from them."""
