"""Other projects that take part: installed into virtual environments and driven as processes."""
