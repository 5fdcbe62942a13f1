from tests.commands.conftest import no_plots, threads, tiny  # noqa: F401 -- fixtures
