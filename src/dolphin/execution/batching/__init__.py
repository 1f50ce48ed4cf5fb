"""Operations of many samples as one: what `batched` is made of."""
