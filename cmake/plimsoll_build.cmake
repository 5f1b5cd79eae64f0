# Compiler settings, dependencies and the one function that makes a folder a library.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(PLIMSOLL_CCACHE ccache)
if(PLIMSOLL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PLIMSOLL_CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wshadow -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns of overlapping copies inside std::string itself (GCC bug 105651).
  add_compile_options(-Wno-restrict)
endif()
if(PLIMSOLL_SANITIZE)
  # What a sanitizer finds ends the process, so that a test fails by it.
  add_compile_options(-fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PLIMSOLL_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # The checks that g++ inserts confuse its own analysis of values (GCC manual, -fsanitize). The
    # other presets see the same sources without them, and there the warning is an error.
    add_compile_options(-Wno-error=maybe-uninitialized)
  endif()
endif()
if(PLIMSOLL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "PLIMSOLL_FUZZ needs clang, which brings libFuzzer: cmake --preset fuzz")
  endif()
  # Everything counts its branches; the targets in tests/fuzz link the driver.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(Eigen3 3.3 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
set(BLA_VENDOR OpenBLAS)
find_package(BLAS REQUIRED)
find_path(PLIMSOLL_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread x86_64-linux-gnu
          aarch64-linux-gnu REQUIRED)

if(PLIMSOLL_CUDA)
  message(STATUS "CUDA backend: not part of this version yet; building without it")
else()
  message(STATUS "CUDA backend: left out (PLIMSOLL_CUDA=OFF)")
endif()
message(STATUS "MPI communicator: left out (devices are threads of one process in this version)")

# plimsoll_library(base DEPENDS …): every .cc of the folder becomes the library plimsoll_base.
function(plimsoll_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_library(plimsoll_${name} STATIC ${sources})
  target_include_directories(plimsoll_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(plimsoll_${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# plimsoll_emulated_sources(a.cu …): CUDA sources compiled by the host's compiler for the emulator.
# The flag makes the compiler report every load and store; kernels/emulation/hooks.cc takes the
# reports, no sanitizer is linked. Under a real sanitizer the kernels run unchecked.
function(plimsoll_emulated_sources)
  set(options -x c++ -ffp-contract=off -fno-math-errno)
  if(NOT PLIMSOLL_SANITIZE)
    list(APPEND options -fsanitize=thread)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      list(APPEND options --param tsan-instrument-func-entry-exit=0)
    else()
      list(APPEND options -mllvm -tsan-instrument-func-entry-exit=0)
    endif()
  endif()
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${options}")
endfunction()
