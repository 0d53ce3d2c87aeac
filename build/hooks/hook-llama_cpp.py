"""The bindings load their libraries by name, so nothing but a list tells which ones are needed."""

from PyInstaller.utils.hooks import collect_dynamic_libs

binaries = collect_dynamic_libs("llama_cpp", search_patterns=["*.so", "*.dylib", "*.dll"])
