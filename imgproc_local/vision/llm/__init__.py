"""Descriptions by a vision language model, which llama.cpp or another program runs on this machine."""
