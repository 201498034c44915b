"""What `memmodel run` puts into the Python processes of a training script."""
