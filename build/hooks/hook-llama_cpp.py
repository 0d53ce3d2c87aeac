"""llama-cpp-python loads its shared libraries by name, which PyInstaller can't detect."""

from PyInstaller.utils.hooks import collect_dynamic_libs

binaries = collect_dynamic_libs("llama_cpp", search_patterns=["*.so", "*.dylib", "*.dll"])
