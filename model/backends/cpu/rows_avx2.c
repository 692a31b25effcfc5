#define ROWS mr__rows_avx2
#define ROWS_NAME "avx2"
#include "model/backends/cpu/rows_body.h"
