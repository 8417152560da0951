"""Other projects that are compared: installed into virtual environments and driven as processes."""
