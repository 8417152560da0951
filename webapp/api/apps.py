from django.apps import AppConfig
from django.utils import timezone

from webapp.core.scheduler import every

TIDY_EVERY = 60.0
SWEEP_EVERY = 3600.0


class ApiConfig(AppConfig):
    name = "webapp.api"

    def ready(self) -> None:
        from webapp.api.idempotency import do_expire_keys
        from webapp.api.uploads import do_finish_silent_imports, do_sweep_images

        every(TIDY_EVERY, "idempotency keys", lambda: do_expire_keys(timezone.now()))
        every(TIDY_EVERY, "silent imports", lambda: do_finish_silent_imports(timezone.now()))
        every(SWEEP_EVERY, "images", lambda: do_sweep_images(timezone.now()))
