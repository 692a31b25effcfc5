# Which optional libraries this build has (cmake/features.cmake).
target_sources(mr_base PRIVATE ${CMAKE_BINARY_DIR}/generated/features.c)

# One text, two instruction sets; which one runs is decided at run time (isa.c).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/base/index_shuffle_avx2.c
    PROPERTIES
    COMPILE_OPTIONS "-O3;-mavx2")
endif()
