"""What is managed over the API: each kind of thing once, for its routes and for files of configuration."""
