"""How much of the logits the kernels hold at a time; the memory estimates read it too."""

CHUNK_ELEMENTS = 1 << 24  # logits of a chunk, without kernels
STASH_SHARE = 16  # of a GPU's memory one part may be kept from forward to backward
SLICE_BYTES = 1 << 28  # of logits computed again in backward, if they were not kept
