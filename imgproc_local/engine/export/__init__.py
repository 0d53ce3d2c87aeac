"""Archives of the finished files of many images."""
