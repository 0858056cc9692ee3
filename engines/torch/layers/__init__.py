"""Building blocks that several models share: tensors in, tensors out, no state but caches."""
