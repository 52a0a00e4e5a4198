"""Where the time goes in rows that miss a goal, by the beginning of their names; from profiles of their own work."""

REASONS = {
    "criteria/float/10": (
        "Most of it is Python around one call into C: the call with its addresses and arguments 37 %, `compare` itself "
        "24 %, sums of cells and the two norms 19 %, figures back into values 17 %."
    ),
    "criteria/float/1000": ("As for 10 elements."),
    "criteria/float/10M": (
        "The pass computes in float64 what it reads as float32, where the limit adds nothing: arithmetic is "
        "more than memory takes as long as each core has the memory to itself."
    ),
    "criteria/half/10M": ("As for bfloat16."),
    "criteria/bfloat16/10M": (
        "Half the bytes and the same arithmetic as for float: every element is widened to float64, so that "
        "arithmetic, not memory, is what takes the time."
    ),
    "criteria/bound/10M": (
        "As for float, with three products and two comparisons more for each element; what it is allowed is "
        "worked out in full only in bands of 1024 where these do not tell."
    ),
    "criteria/numpy/1000": (
        "Some 30 numpy calls of about 1 µs each on one block: sums of cells 24 %, differences 9 %, walking over "
        "blocks 9 %, `compare` itself 7 %. Between 66 and 115 µs were seen within an hour on the same machine, as its "
        "clock allows; np.testing takes 0.65 times as long at each of them."
    ),
    "criteria/numpy/10M": (
        "A dozen numpy passes over each block in float64: products and sums 42 %, differences 20 %, unequal bits "
        "and ulp 16 %, relative errors 10 %, extremes 6 %, the interpreter 6 %."
    ),
    "text/read-numpy/value_f": (
        "np.fromstring 85 %, counting the field's name between numbers 10 %: numpy's own parser is the limit "
        "without the native one."
    ),
    "baselines/voxel_pooling_forward": (
        "Adding points where they lie, with the extremes that prove the sums exact, 35 %; marking the points that "
        "count and their memos 35 %, rounding the sums 13 %, looking for NaN 3 %."
    ),
    "baselines/dynamic_scatter_backward": (
        "With OMP_NUM_THREADS=1 it is 1.4 times the limit. It runs behind the torch backend, whose threads still wait "
        "for work, and what they take counts in processor time."
    ),
    "baselines/ball_query": (
        "The plain loop stops at the last point that is asked for. The reference looks at all: finding the hits 31 %, "
        "listing them 20 %, comparing with the radii 16 %, distances 19 %."
    ),
    "large/random": (
        "Philox4x64 in C takes 85 %, the mapping to lattice values 15 %; numpy's PCG64 needs fewer "
        "multiplications, but its stream may change with its version."
    ),
    "large/two-workers": (
        "Workers take 60 % of the processor time, the controller 40 %: digests of what is loaded, inputs copied into "
        "shared memory, comparing, explaining. The controller's work runs beside that of the workers, and comparing "
        "uses both cores even with one worker, so that less is left to gain."
    ),
}


def reason_of(row: str) -> str:
    """What is known about that row; nothing where nobody has looked yet."""
    return next((words for name, words in REASONS.items() if f"{row}/".startswith(f"{name}/")), "")
