# Rooms: one static library a top-level folder, mr_<room>.  Its sources are the folder's *.c files.
# A room's headers are included as "room/file.h" through a folder that holds nothing but a link to
# it, so that a room which was not named in DEPENDS cannot be included.

set(MR_WARNINGS -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
  -Wno-unused-parameter -Werror)
if(CMAKE_C_COMPILER_ID MATCHES "Clang") # the fuzz build; gcc knows what {0} and short rows mean
  list(APPEND MR_WARNINGS -Wno-missing-field-initializers -Wno-missing-braces -Wno-pass-failed)
endif()
set(MR_SANITIZE_FLAGS "")
if(MILLRACE_SANITIZE STREQUAL "address")
  set(MR_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(MILLRACE_SANITIZE STREQUAL "thread")
  set(MR_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
elseif(MILLRACE_SANITIZE STREQUAL "fuzz")
  set(MR_SANITIZE_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
endif()
add_compile_definitions(_GNU_SOURCE)

function(mr_room_include room out)
  set(dir ${CMAKE_BINARY_DIR}/include/${room})
  file(MAKE_DIRECTORY ${dir})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${room} ${dir}/${room} SYMBOLIC)
  set(${out} ${dir} PARENT_SCOPE)
endfunction()

function(mr_target_setup target)
  target_compile_options(${target} PRIVATE ${MR_WARNINGS} ${MR_SANITIZE_FLAGS} -fno-math-errno -fno-trapping-math)
  # Draws and pixels have the same bits on every processor, so that no compiler may join a product and
  # a sum into one rounding, as gcc does for arm64.  The tensor graph promises its bits for one machine.
  if(NOT target STREQUAL "mr_model")
    target_compile_options(${target} PRIVATE -ffp-contract=off)
  endif()
  target_link_options(${target} PRIVATE ${MR_SANITIZE_FLAGS})
endfunction()

function(mr_room room)
  cmake_parse_arguments(A "" "" "DEPENDS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room}/*.c)
  add_library(mr_${room} STATIC ${sources})
  mr_room_include(${room} dir)
  target_include_directories(mr_${room} PUBLIC $<BUILD_INTERFACE:${dir}>)
  foreach(d ${A_DEPENDS})
    target_link_libraries(mr_${room} PUBLIC mr_${d})
  endforeach()
  target_link_libraries(mr_${room} PUBLIC ${A_LIBS})
  mr_target_setup(mr_${room})
  if(EXISTS ${CMAKE_SOURCE_DIR}/${room}/room.cmake)
    include(${CMAKE_SOURCE_DIR}/${room}/room.cmake) # per-file flags of this room
  endif()
endfunction()

# The command line: apps/*.c become the program "millrace".
function(mr_program room)
  cmake_parse_arguments(A "" "" "DEPENDS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room}/*.c)
  add_executable(millrace ${sources})
  mr_room_include(${room} dir)
  target_include_directories(millrace PRIVATE ${dir})
  foreach(d ${A_DEPENDS})
    target_link_libraries(millrace PRIVATE mr_${d})
  endforeach()
  target_link_libraries(millrace PRIVATE ${A_LIBS})
  mr_target_setup(millrace)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${room}/room.cmake)
    include(${CMAKE_SOURCE_DIR}/${room}/room.cmake)
  endif()
endfunction()
