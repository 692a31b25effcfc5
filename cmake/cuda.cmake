# The CUDA backend: MILLRACE_CUDA is AUTO (built in where a toolkit is found), ON (required) or OFF.  The toolkit is no
# package of pkg-config and in no distribution's main archive, so MILLRACE_WITH=ON does not ask for it, and
# MILLRACE_WITH=OFF leaves it out.  The run-time library is linked statically, and it finds the driver by itself;
# everything else of CUDA is opened at run time, so that the program starts on every machine.

set(MILLRACE_CUDA AUTO CACHE STRING "device cuda, which needs NVIDIA's CUDA toolkit to build: AUTO, ON or OFF")
set_property(CACHE MILLRACE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MR_CUDA_LEAST 12080) # as CUDART_VERSION: cudaLibraryLoadData

# Why the toolkit at MR_CUDA_INCLUDE cannot be used; empty: it can be.  Its version is written to MR_CUDA_VERSION.
function(mr_cuda_lacks out)
  if(NOT MR_CUDA_INCLUDE)
    set(${out} "not found" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${MR_CUDA_INCLUDE}/cuda_runtime_api.h line REGEX "#define CUDART_VERSION ")
  string(REGEX MATCH "[0-9]+" number "${line}")
  math(EXPR major "${number} / 1000")
  math(EXPR minor "${number} % 1000 / 10")
  set(MR_CUDA_VERSION ${major}.${minor} PARENT_SCOPE)
  if(number LESS MR_CUDA_LEAST)
    set(${out} "too old: ${MR_CUDA_INCLUDE} is of CUDA ${major}.${minor}" PARENT_SCOPE)
  elseif(NOT MR_CUDA_STATIC OR NOT EXISTS ${MR_CUDA_INCLUDE}/nvrtc.h OR NOT EXISTS ${MR_CUDA_INCLUDE}/cublasLt.h)
    set(${out} "not whole: ${MR_CUDA_INCLUDE} has no nvrtc.h or no cublasLt.h, or libcudart_static.a lies in no folder beside it"
      PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

# Adds the feature CUDA (features.cmake): sets MR_HAS_CUDA, MR_CUDA to what a target links, and MR_CUDA_PC to the same
# for millrace.pc.
function(mr_feature_cuda)
  set(library "CUDA's toolkit")
  set(packages cuda-toolkit)
  set(gives "device cuda")
  set(want "${MILLRACE_CUDA}")
  if(want STREQUAL "AUTO" AND NOT MILLRACE_WITH STREQUAL "AUTO" AND NOT MILLRACE_WITH)
    set(want OFF)
  endif()
  set(has FALSE)
  set(MR_CUDA "" PARENT_SCOPE)
  set(MR_CUDA_PC "" PARENT_SCOPE)
  if(want STREQUAL "AUTO" OR want)
    set(roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT})
    set(also)
    if(CMAKE_CROSSCOMPILING) # every other folder holds this machine's libraries, not those of another architecture
      set(also NO_DEFAULT_PATH)
    else()
      list(APPEND roots $ENV{CUDA_PATH} $ENV{CUDA_HOME} /usr/local/cuda /opt/cuda)
    endif()
    find_path(MR_CUDA_INCLUDE cuda_runtime_api.h HINTS ${roots} PATH_SUFFIXES include targets/x86_64-linux/include ${also})
    find_library(MR_CUDA_STATIC cudart_static HINTS ${roots} PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib ${also})
    mark_as_advanced(MR_CUDA_INCLUDE MR_CUDA_STATIC)
    mr_cuda_lacks(lacks)
    if(NOT lacks)
      set(has TRUE)
    elseif(NOT want STREQUAL "AUTO")
      message(FATAL_ERROR "${library} is required by MILLRACE_CUDA=ON and ${lacks}: install CUDA 12.8 or newer and name "
        "its folder by -DCUDAToolkit_ROOT=DIR, or set MILLRACE_CUDA=OFF to do without ${gives}")
    endif()
  endif()
  set(version NULL)
  if(has)
    add_library(mr_cuda INTERFACE)
    target_include_directories(mr_cuda SYSTEM INTERFACE ${MR_CUDA_INCLUDE})
    target_link_libraries(mr_cuda INTERFACE ${MR_CUDA_STATIC} ${CMAKE_DL_LIBS} rt)
    set(MR_CUDA mr_cuda PARENT_SCOPE)
    get_filename_component(folder ${MR_CUDA_STATIC} DIRECTORY)
    # Not the archive's path: CMake puts what is neither -L nor -l before the libraries that need it.
    set(MR_CUDA_PC " -L${folder} -lcudart_static -ldl -lrt" PARENT_SCOPE)
    set(version "\"${MR_CUDA_VERSION}\"")
    set(MR_FEATURES_IN "${MR_FEATURES_IN};${library}" PARENT_SCOPE)
  else()
    set(MR_FEATURES_OUT "${MR_FEATURES_OUT};${library} (${gives})" PARENT_SCOPE)
  endif()
  set(MR_HAS_CUDA ${has} PARENT_SCOPE)
  set(MR_HAS_CUDNN FALSE PARENT_SCOPE) # no feature of its own: without its headers attention is opened
  if(has)
    find_path(MR_CUDNN_INCLUDE cudnn_backend.h HINTS ${MR_CUDA_INCLUDE})
    mark_as_advanced(MR_CUDNN_INCLUDE)
    if(MR_CUDNN_INCLUDE)
      target_include_directories(mr_cuda SYSTEM INTERFACE ${MR_CUDNN_INCLUDE})
      set(MR_HAS_CUDNN TRUE PARENT_SCOPE)
    endif()
  endif()
  set(MR_FEATURE_ROWS "${MR_FEATURE_ROWS}    {\"CUDA\", \"MILLRACE_CUDA\", \"${library}\", \"${packages}\",
     \"${gives}\", ${version}},\n" PARENT_SCOPE)
endfunction()
