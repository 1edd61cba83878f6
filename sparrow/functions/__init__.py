"""The functions of the namespace ``sp``: they make tensors, rearrange them and ask questions of them."""
