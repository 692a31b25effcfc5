#define ROWS mr__rows_avx512
#include "model/backends/cpu/rows_body.inc"
