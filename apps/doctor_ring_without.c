#include "apps/doctor.h"

void mr_doctor_ring(cJSON *section) {} /* there is none to ask: mr_uring_refused says why */
