"""One command a module: `add_arguments(parser)` and `run(args)`, imported when it is called."""
