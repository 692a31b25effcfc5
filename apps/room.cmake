target_compile_definitions(millrace PRIVATE MR_VERSION="${PROJECT_VERSION}" MR_LIBURING="${URING_VERSION}")

# The default graph as a C string: one literal a line.
set(MR_GRAPH_FILE ${CMAKE_SOURCE_DIR}/examples/cifar10-vit.mr)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MR_GRAPH_FILE})
file(READ ${MR_GRAPH_FILE} MR_GRAPH_TEXT)
string(REPLACE "\\" "\\\\" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
string(REPLACE "\"" "\\\"" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
string(REPLACE "\n" "\\n\"\n    \"" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/default_graph.c @ONLY CONTENT
"#include \"apps/default_graph.h\"

const char mr_default_graph[] =
    \"@MR_GRAPH_TEXT@\";
")
target_sources(millrace PRIVATE ${CMAKE_BINARY_DIR}/default_graph.c)
