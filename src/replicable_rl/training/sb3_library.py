"""What ``StableBaselines3`` needs of the libraries: seeds of streams, generators lent out, models and environments.

The libraries are imported by name, when they are needed: importing this module costs nothing, and
type checks do not need them installed.
"""

import copy
import functools
import hashlib
import importlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.problem.environments import make_env, versioned_id
from replicable_rl.training import lending, sb3_options
from replicable_rl.wording import sentence

OWNER = "StableBaselines3"
STREAMS = ("network", "exploration", "environment")
_ONE_AT_A_TIME = threading.Lock()  # the generators are global: two threads would draw from one stream


# --- streams ---------------------------------------------------------------------------------


def stream_seeds(share: Collection[str], shared_seed: int, sample_seed: int) -> dict[str, int]:
    """Return the seed of each stream: from the shared seed if it is one of ``share``, else from the sample seed."""
    return {
        stream: seed_of("shared", stream, shared_seed) if stream in share else seed_of("sample", stream, sample_seed)
        for stream in STREAMS
    }


def seed_of(source: str, stream: str, seed: int) -> int:
    """Return the 32-bit seed of a stream; streams and the two kinds of seed are unrelated.

    >>> seed_of("shared", "network", 7)
    1584544486
    """
    text = f"replicable-rl stable-baselines3 v1\n{source}\n{stream}\n{seed}\n"
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:4], "little")


def seed_generators(seed: int) -> None:
    """Seed the generators Stable-Baselines3 draws from; those of GPUs too, where there are any."""
    lending.seed_generators(seed)
    torch = import_library("torch")
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


@contextmanager
def isolated() -> Iterator[None]:
    """Lend out the global generators, with one PyTorch thread; put everything back afterwards."""
    torch = import_library("torch")
    with _ONE_AT_A_TIME, lending.lent_generators():
        threads, state = torch.get_num_threads(), torch.get_rng_state()
        on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_rng_state(state)
            if on_gpus:
                torch.cuda.set_rng_state_all(on_gpus)
            torch.set_num_threads(threads)


# --- the libraries ---------------------------------------------------------------------------


def import_library(name: str) -> Any:
    """Return a module, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidInput(
            f"{OWNER}: {name} cannot be imported ({error}). Install it: pip install stable-baselines3."
        ) from error


def make_environment(env_id: object, options: Mapping[str, Any] | None) -> Any:
    """Make an environment by its id; it may do with its options what it likes."""
    if not isinstance(env_id, str):
        raise InvalidInput(
            f"{OWNER}: env must be the id of an environment, because every run makes its own, got {shown(env_id)}. "
            "Register the environment and pass its id."
        )
    otherwise = " If it is your own, pass 'module:id'."
    return make_env(OWNER, env_id, copy.deepcopy(dict(options or {})), otherwise=otherwise)


def env_id_with_version(env_id: str, options: Mapping[str, Any]) -> str:
    """Return the id with its version, once the environment can be made."""
    made = make_environment(env_id, options)
    made.close()
    return versioned_id(env_id, made)


def algorithm_class(algorithm: object) -> Any:
    """Return the class, looked up by its name if need be."""
    library = import_library("stable_baselines3")
    base = library.common.base_class.BaseAlgorithm
    if isinstance(algorithm, type) and issubclass(algorithm, base):
        return algorithm
    known = {name: item for name, item in vars(library).items() if isinstance(item, type) and issubclass(item, base)}
    if isinstance(algorithm, str) and algorithm in known:
        return known[algorithm]
    hint = did_you_mean(algorithm.upper(), known) if isinstance(algorithm, str) else ""
    raise InvalidInput(
        f"{OWNER}: algorithm must be one of {', '.join(sorted(known))} or a class derived from BaseAlgorithm, "
        f"got {shown(algorithm)}.{hint}"
    )


def exported_name(algorithm: Any) -> str | None:
    """Return the name under which Stable-Baselines3 exports the class, if it does."""
    name = str(algorithm.__name__)
    return name if getattr(import_library("stable_baselines3"), name, None) is algorithm else None


def callback_class() -> type:
    """Return the base class of callbacks."""
    base: type = import_library("stable_baselines3").common.callbacks.BaseCallback
    return base


def check_device(device: object) -> str:
    """Return the name of a device of PyTorch that is there; refuse what depends on the machine."""
    torch = import_library("torch")
    if not isinstance(device, str) or device == "auto":
        raise InvalidInput(f"{OWNER}: device must be a name such as 'cpu' or 'cuda:0', got {shown(device)}.")
    try:
        name = str(torch.empty(0, device=torch.device(device)).device)
    except Exception as error:  # PyTorch raises several kinds
        said = sentence(error)
        raise InvalidInput(f"{OWNER}: device {shown(device)} cannot be used here ({said}). Pass 'cpu'.") from None
    return name


def build_model(
    algorithm: Any, policy: str, envs: Sequence[Any], options: Mapping[str, Any] | None, device: str = "cpu"
) -> Any:
    """Return the untrained model without logs; its weights come from the global generators."""
    env = envs[0]
    try:
        given = env if len(envs) == 1 else _side_by_side(envs)
        model = algorithm(policy, given, seed=None, device=device, **sb3_options.copied(options or {}))
    except Exception as error:  # whatever the library raises, its own sentence says why
        raise InvalidInput(
            f"{OWNER}: {algorithm.__name__} cannot be built for {env.spec.id!r} with these settings "
            f"({type(error).__name__}: {str(error).rstrip('.')})."
        ) from error
    model.set_logger(import_library("stable_baselines3").common.logger.Logger(folder=None, output_formats=[]))
    return model


def _side_by_side(envs: Sequence[Any]) -> Any:
    """Return several environments as one of Stable-Baselines3, each with its monitor, as the library makes one."""
    common = import_library("stable_baselines3.common.vec_env")
    monitor = import_library("stable_baselines3.common.monitor").Monitor
    return common.DummyVecEnv([functools.partial(monitor, env) for env in envs])


def without_data(model: Any) -> Any:
    """Drop what is not needed to act: the environment and the buffers, which can be large."""
    for name in ("env", "replay_buffer", "rollout_buffer", "_last_obs", "_last_original_obs", "ep_info_buffer"):
        if hasattr(model, name):
            setattr(model, name, None)
    return model
