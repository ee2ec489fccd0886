"""What is shown: progress, tables and pictures. Loaded only by the command line."""
