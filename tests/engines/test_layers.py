import pytest
import torch

from engines.torch.layers.attention import attend, causal_mask
from engines.torch.layers.kv_cache import KvCache, KvShape
from engines.torch.layers.linear import Linear
from engines.torch.layers.rope import Rope, inverse_frequencies, rotate
from engines.torch.layers.weight_formats import WeightFormat, can_pack

SHAPE = KvShape(layers=2, heads=1, head_dim=4, dtype=torch.float32)


def _linear(inputs: int, outputs: int, dtype: torch.dtype) -> tuple[Linear, torch.Tensor]:
    torch.manual_seed(3)
    layer = Linear(inputs, outputs).requires_grad_(False)
    assert layer.weight is not None and layer.bias is not None
    layer.weight.normal_()
    layer.bias.normal_()
    layer = layer.to(dtype)
    assert layer.weight is not None
    return layer, layer.weight.clone()


@pytest.mark.parametrize("inputs", [8, 288, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 33])
def test_packed_linear_equals_the_exact_product(inputs: int, dtype: torch.dtype, rows: int) -> None:
    layer, weight = _linear(inputs, 24, dtype)
    x = torch.randn(2, rows, inputs, dtype=dtype)
    assert layer.bias is not None
    exact = x.double() @ weight.double().T + layer.bias.double()
    with torch.inference_mode():
        layer.pack()
        packed = layer(x)
    assert packed.dtype == dtype and packed.shape == (2, rows, 24)
    loose = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(packed.double(), exact, rtol=loose, atol=loose * inputs**0.5)


def test_packed_linear_gives_up_its_plain_weight() -> None:
    layer, _ = _linear(8, 8, torch.float32)
    layer.pack()
    assert (layer.weight is None) == can_pack(WeightFormat.FLOAT32)


def test_dtype_without_packed_kernels_keeps_the_plain_product() -> None:
    layer, weight = _linear(8, 8, torch.float64)
    layer.pack()
    x = torch.randn(1, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x), x @ weight.T + layer.bias)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_under_a_causal_mask_sees_no_later_key(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    queries = torch.randn(1, 2, 3, 8, dtype=dtype)
    keys, values = torch.randn(2, 1, 2, 5, 8, dtype=dtype)
    mask = causal_mask(3, 2, queries)
    seen = attend(queries, keys, values, mask)
    for row in range(3):
        alone = attend(queries[:, :, row : row + 1], keys[:, :, : row + 3], values[:, :, : row + 3])
        torch.testing.assert_close(seen[:, :, row : row + 1], alone, rtol=2e-2, atol=2e-2)


def test_single_query_needs_no_mask() -> None:
    assert causal_mask(1, 10, torch.zeros(1)) is None


def test_cache_that_outgrows_its_room_keeps_what_it_holds() -> None:
    cache = KvCache(SHAPE, capacity=2, limit=7)
    rows = torch.arange(6.0).view(1, 1, 6, 1).expand(1, 1, 6, 4)
    for start, new in ((0, 2), (2, 1), (3, 3)):
        cache.reserve(new)
        part = rows[:, :, start : start + new]
        for layer in range(2):
            keys, values = cache.write(layer, part + layer, -part)
        cache.advance(new)
    assert cache.length == 6
    torch.testing.assert_close(keys, rows + 1)
    torch.testing.assert_close(values, -rows)


def test_cache_doubles_up_to_its_limit_and_counts_its_bytes() -> None:
    cache = KvCache(SHAPE, capacity=4, limit=10)
    assert cache.nbytes == 4 * SHAPE.bytes_per_token
    cache.reserve(5)
    assert cache.nbytes == 8 * SHAPE.bytes_per_token
    cache.reserve(9)
    assert cache.nbytes == 10 * SHAPE.bytes_per_token
    with pytest.raises(ValueError, match="11 positions"):
        cache.reserve(11)


def test_truncated_cache_is_written_over_from_there() -> None:
    cache = KvCache(SHAPE, capacity=4, limit=4)
    for value in (1.0, 2.0):
        cache.reserve(1)
        for layer in range(2):
            cache.write(layer, torch.full((1, 1, 1, 4), value), torch.zeros(1, 1, 1, 4))
        cache.advance(1)
    cache.truncate(1)
    keys, _ = cache.write(0, torch.full((1, 1, 1, 4), 9.0), torch.zeros(1, 1, 1, 4))
    assert keys[0, 0, :, 0].tolist() == [1.0, 9.0]


def test_rotation_depends_on_the_distance_of_positions_only() -> None:
    torch.manual_seed(2)
    rope = Rope(inverse_frequencies(8, 10_000.0, None), torch.float32)
    query, key = torch.randn(2, 1, 1, 8)

    def score(query_at: int, key_at: int) -> torch.Tensor:
        rope.reserve(1 + max(query_at, key_at), query.device)
        turned = [
            rotate(x, *rope.at(torch.tensor([at]))) for x, at in ((query, query_at), (key, key_at))
        ]
        return (turned[0] * turned[1]).sum()

    torch.testing.assert_close(score(7, 3), score(1004, 1000), rtol=1e-4, atol=1e-4)
    assert not torch.isclose(score(7, 3), score(7, 4))
