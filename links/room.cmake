# Without ZeroMQ the room holds its table alone, and the names of its stages.
file(GLOB calls RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/links/*.c)
list(FILTER calls EXCLUDE REGEX "links/(links|without)\\.c$")
mr_needs(mr_links ZMQ ${calls})
