"""The archive in a directory of the local disk: segment files and a manifest file."""
