"""Named sets of filters, order and columns of a list, of one person or shared with a team."""
