#define ROWS mr__rows_avx512
#define ROWS_NAME "avx512"
#include "model/backends/cpu/rows_body.h"
