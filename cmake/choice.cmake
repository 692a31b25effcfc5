# mr_choice(OPTION word...): fails unless the option's value is one of the words.  A misspelt value would else count as
# ON.
function(mr_choice option)
  list(FIND ARGN "${${option}}" at)
  if(at LESS 0)
    list(JOIN ARGN ", " words)
    message(FATAL_ERROR "${option}=${${option}}: expected one of ${words}")
  endif()
endfunction()
