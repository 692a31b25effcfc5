/* How attention is computed on a device, as the environment's MILLRACE_ATTENTION asks: by a
   library, by the kernel of one group a head, or opened into products and a softmax. */
#ifndef MR_MODEL_BACKENDS_KERNELS_ATTENTION_WAY_H
#define MR_MODEL_BACKENDS_KERNELS_ATTENTION_WAY_H

typedef enum mr_attention_way {
  MR_ATTENTION_USUAL, /* not set: what the backend prefers */
  MR_ATTENTION_OWN,   /* "own": the kernel, and what it does not take as usual */
  MR_ATTENTION_CUDNN, /* "cudnn": the library, and what it does not take is opened */
  MR_ATTENTION_OPENED /* "opened" */
} mr_attention_way_t;

/* Reads MILLRACE_ATTENTION.  Another word is MR_ATTENTION_USUAL, with a notice, once.  Any thread.
 */
mr_attention_way_t mr_attention_way(void);

#endif
