"""Descriptions by a vision language model that llama.cpp runs on this machine."""
