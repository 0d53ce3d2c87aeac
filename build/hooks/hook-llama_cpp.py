"""The bindings load their libraries by name, so PyInstaller can't find them on its own."""

from PyInstaller.utils.hooks import collect_dynamic_libs

binaries = collect_dynamic_libs("llama_cpp", search_patterns=["*.so", "*.dylib", "*.dll"])
