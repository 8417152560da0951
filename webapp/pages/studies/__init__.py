"""Pages of studies: the list, the launch form, a study with its results, exports and sharing."""
