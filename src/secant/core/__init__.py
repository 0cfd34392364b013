"""The base of all packages: types, checks of arguments, options of the compiler, safe files, and progress bars."""
