"""The catalogue of models that can be installed by name (trainer/config/models.yaml). Imports no torch."""

from trainer.config.catalogue.entries import CatalogueModel as CatalogueModel
from trainer.config.catalogue.entries import HubSource as HubSource
from trainer.config.catalogue.entries import PackageSource as PackageSource
from trainer.config.catalogue.entries import Source as Source
from trainer.config.catalogue.entries import catalogue as catalogue
