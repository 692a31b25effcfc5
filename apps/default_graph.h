/* examples/cifar10-vit.mr, compiled in: the graph that train runs without --graph. */
#ifndef MR_APPS_DEFAULT_GRAPH_H
#define MR_APPS_DEFAULT_GRAPH_H

extern const char mr_default_graph[];

#endif
