# One text, three instruction sets; which one runs is decided at run time (rows.c).
set(MR_AVX2_FLAGS -O3 -mavx2 -mfma)
set(MR_AVX512_FLAGS -O3 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
set_source_files_properties(${CMAKE_SOURCE_DIR}/model/backends/cpu/rows_avx2.c PROPERTIES
  COMPILE_OPTIONS "${MR_AVX2_FLAGS}")
set_source_files_properties(${CMAKE_SOURCE_DIR}/model/backends/cpu/rows_avx512.c PROPERTIES
  COMPILE_OPTIONS "${MR_AVX512_FLAGS}")
