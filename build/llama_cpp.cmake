# A third less to compile for llama-cpp-python: llama.cpp's library for its own programs, with their options, chat
# templates and HTTP server, is left out, because the Python package does not use it. The package sets the option of this
# name in CMake's cache; a variable has precedence. With pip: CMAKE_ARGS=-DCMAKE_PROJECT_llama_cpp_INCLUDE=<this file>
set(LLAMA_BUILD_COMMON OFF)
