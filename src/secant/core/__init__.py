"""What every room may need, and what needs no other room: types, checks of arguments, the compiler, files, progress."""
