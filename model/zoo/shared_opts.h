/* Settings that several models have, each described once: rows of a table of settings, by the
   offsets of their values in a model's state. */
#ifndef MR_MODEL_ZOO_SHARED_OPTS_H
#define MR_MODEL_ZOO_SHARED_OPTS_H

#include "model/nn/activation.h"
#include "model/nn/class_loss.h"

/* The loss of classes: an index into `names`, MR_CLASS_LOSS_CHOICES, perhaps behind "auto|"; the
   focal loss's gamma and the smoothing, doubles.  more: what the help of loss says besides. */
#define MR__LOSS_OPTS(loss_at, gamma_at, smoothing_at, usual, names, more)                       \
  {.name = "label-smoothing",                                                                    \
   .hint = "smoothing labelsmooth labelsmoothingfactor",                                         \
   .type = MR_OPT_F64,                                                                           \
   .offset = (smoothing_at),                                                                     \
   .def = "0",                                                                                   \
   .hi = 0.999,                                                                                  \
   .help = "Share of the target spread evenly over all classes."},                               \
      {.name = "loss",                                                                           \
       .hint = "criterion lossfn lossfunction losstype",                                         \
       .values = mr_class_loss_hints,                                                            \
       .type = MR_OPT_ENUM,                                                                      \
       .offset = (loss_at),                                                                      \
       .def = usual,                                                                             \
       .choices = names,                                                                         \
       .help =                                                                                   \
           "Loss of classes: cross-entropy; focal: less of it where the prediction is right "    \
           "already; mse: mean square of logits minus one-hot." more},                           \
  {                                                                                              \
    .name = "focal-gamma", .hint = "gamma focalgamma", .type = MR_OPT_F64, .offset = (gamma_at), \
    .def = "2", .lo = 1, .hi = 100,                                                              \
    .help =                                                                                      \
        "Of the focal loss: how much less a record counts whose class is predicted "             \
        "already."                                                                               \
  }

/* What MLPs compute between their products: a mr_activation_t and a mr_nn_gelu_t, ints.  own: what
   auto means. */
#define MR__ACTIVATION_OPTS(activation_at, gelu_at, own)                                    \
  {.name = "activation",                                                                    \
   .hint = "actlayer hiddenact act actfn activationfn activationfunction nonlinearity",     \
   .values = mr_activation_hints,                                                           \
   .type = MR_OPT_ENUM,                                                                     \
   .offset = (activation_at),                                                               \
   .def = "gelu",                                                                           \
   .choices = MR_ACTIVATION_CHOICES,                                                        \
   .help =                                                                                  \
       "What the MLPs apply between their products; quick-gelu: x sigmoid(1.702 x), silu: " \
       "x sigmoid(x)."},                                                                    \
  {                                                                                         \
    .name = "gelu", .hint = "approximate", .type = MR_OPT_ENUM, .offset = (gelu_at),        \
    .def = "auto", .choices = MR_NN_GELU_CHOICES,                                           \
    .help = "GELU of the MLPs: by erf, or its approximation by tanh; auto: " own "."        \
  }

#endif
