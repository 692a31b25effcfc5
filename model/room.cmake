# One text, three instruction sets; which one runs is decided at run time (isa.c).  A machine of
# another kind builds the plain one alone: there the others' files compile to nothing.
set(MR_CPU ${CMAKE_SOURCE_DIR}/model/backends/cpu)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set_source_files_properties(${MR_CPU}/rows_avx2.c ${MR_CPU}/attention_avx2.c ${MR_CPU}/lanes_avx2.c
    PROPERTIES
    COMPILE_OPTIONS "-O3;-mavx2;-mfma;-mf16c")
  set_source_files_properties(${MR_CPU}/rows_avx512.c ${MR_CPU}/attention_avx512.c ${MR_CPU}/lanes_avx512.c
    PROPERTIES
    COMPILE_OPTIONS "-O3;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mprefer-vector-width=512")
  set_source_files_properties(${MR_CPU}/rows_bf16.c ${MR_CPU}/attention_bf16.c
    PROPERTIES
    COMPILE_OPTIONS "-O3;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma;-mprefer-vector-width=512")
endif()

set(cl model/backends/opencl)
mr_needs(mr_model_backends_opencl OPENCL ${cl}/api.c ${cl}/backend.c ${cl}/compile.c ${cl}/device.c ${cl}/limits.c ${cl}/mark.c
  ${cl}/memory.c ${cl}/probe.c ${cl}/program.c)
mr_needs(mr_model_backends_opencl "OPENCL;CLBLAST" ${cl}/blas.c ${cl}/clblast.c)

# The files of the backend that call CUDA: without a toolkit the *_without.c are compiled instead.
file(GLOB cuda CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/model/backends/cuda/*.c)
list(FILTER cuda EXCLUDE REGEX "(_without|/cubin|/tunings|/described|/find)\\.c$") # the last four are plain C, for any machine
set(cu model/backends/cuda)
set(cudnn ${cu}/attention.c ${cu}/attention_graph.c ${cu}/cudnn.c)
list(REMOVE_ITEM cuda ${cudnn})
mr_needs(mr_model_backends_cuda CUDA ${cuda})
mr_needs(mr_model_backends_cuda "CUDA;CUDNN" ${cudnn})

mr_needs(mr_model_call PROTOBUF model/call/pprof.c)

# pprof's profile format as C, by protoc-c; its text is not ours to warn about.
if(MR_HAS_PROTOBUF)
  set(PPROF ${CMAKE_BINARY_DIR}/generated/pprof.pb-c)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  add_custom_command(OUTPUT ${PPROF}.c ${PPROF}.h
    COMMAND ${MR_PROTOBUF_PROGRAM} --c_out=${CMAKE_BINARY_DIR}/generated --proto_path=${CMAKE_SOURCE_DIR}/model/call
      ${CMAKE_SOURCE_DIR}/model/call/pprof.proto
    DEPENDS ${CMAKE_SOURCE_DIR}/model/call/pprof.proto)
  target_sources(mr_model_call PRIVATE ${PPROF}.c ${PPROF}.h)
  set_source_files_properties(${PPROF}.c PROPERTIES COMPILE_OPTIONS "-w")
  target_include_directories(mr_model_call SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
endif()
