target_compile_definitions(millrace PRIVATE MR_VERSION="${PROJECT_VERSION}")
