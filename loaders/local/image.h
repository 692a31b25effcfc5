/* Shared by the image sources: the spec of 32x32 colour pictures in CIFAR's layout, and procedural
   ones (synthetic_draw.c). */
#ifndef MR_LOADERS_LOCAL_IMAGE_H
#define MR_LOADERS_LOCAL_IMAGE_H

#include <stdint.h>

#include "base/philox.h"
#include "pipeline/spec.h"

enum { MR_IMAGE_SIDE = 32, MR_IMAGE_BYTES = 3072, MR_IMAGE_CLASSES = 10 };

enum { MR_IMAGE, MR_LABEL }; /* indices of the fields */

enum { MR_SPLIT_TRAIN, MR_SPLIT_VALID, MR_SPLIT_TEST, MR_SPLIT_ALL };

/* Returns the spec of records with image, u8 (3,32,32) CHW, and label, in one epoch of n_records.
   dataset, which may be NULL, must outlive the spec. */
static inline mr_spec_t mr_image_spec(int64_t n_records, const mr_dataset_t *dataset) {
  return (mr_spec_t){.flow = MR_FLOW_RECORDS,
                     .n_fields = 2,
                     .field = {{.name = "image",
                                .dtype = MR_U8,
                                .layout = MR_LAYOUT_CHW,
                                .ndim = 3,
                                .dim = {3, MR_IMAGE_SIDE, MR_IMAGE_SIDE}},
                               mr_field_of_label(dataset ? dataset->n_classes : 0)},
                     .n_records = n_records,
                     .n_epochs = 1,
                     .dataset = dataset};
}

enum { MR_SYNTHETIC_CLASSES = 10 };

extern const char *const mr_synthetic_class[MR_SYNTHETIC_CLASSES];

/* Draws a picture of a class in [0,MR_SYNTHETIC_CLASSES) into dst, (3,32,32) u8 CHW, with the next
   draws of g.  The class is the shape or texture; place, size, colours and noise are random. */
void mr_synthetic_draw(mr_philox_t *g, int label, uint8_t *dst);

#endif
