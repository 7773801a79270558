"""What has the operator decided?"""

from controller.settings.reading import BadSettings, load
from controller.settings.sources import environment_name
from controller.settings.values import JUTE_MARGIN_BYTES, Listener, Settings

__all__ = ["JUTE_MARGIN_BYTES", "BadSettings", "Listener", "Settings", "environment_name", "load"]
